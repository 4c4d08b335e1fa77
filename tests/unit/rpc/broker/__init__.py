"""The parts about RabbitMQ."""
