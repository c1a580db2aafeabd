"""Provides the messages of DAP, by which devices, two aggregators and a collector work together.

`messages` has one class for each message, with its bytes; nothing here sends or keeps one.

Source: draft-ietf-ppm-dap-18.
"""
