"""Serves devices over HTTP: a static tree to read and one address for reports; nothing names them."""

from alcove.platform.ingress.app import create_ingress

__all__ = ["create_ingress"]
