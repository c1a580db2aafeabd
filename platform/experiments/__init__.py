"""How are versions compared, and what do private reports say about them?"""
