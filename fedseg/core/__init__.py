"""What an algorithm needs and nothing else: vectors, messages, client, server, seeds, bases."""
