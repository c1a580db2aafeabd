"""Provides native operators, composed of microkernels for each instruction set and listed in one manifest."""
