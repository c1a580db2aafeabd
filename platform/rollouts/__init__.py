"""How does a version reach the devices of an app, step by step?"""
