"""Integrations with other libraries. Only files of this directory import them."""
