"""The nouns: frozen values, no behaviour but what a value can say of itself."""
