"""How fast are six models of on-device kind, beside the peers?"""
