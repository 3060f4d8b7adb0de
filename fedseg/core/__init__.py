"""All that an algorithm needs: vectors, messages, client, server, seeds, bases."""
