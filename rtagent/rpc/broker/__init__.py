"""RabbitMQ: the names of queues, the permissions of users, and what the broker refuses."""
