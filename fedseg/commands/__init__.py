"""The sub-commands of ``fedseg``: modules with a ``main`` that imports late; --help is fast."""
