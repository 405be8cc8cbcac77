"""Parsers as judges: a sentence's dependency tree, its probability, and what Link Grammar has to leave out."""
