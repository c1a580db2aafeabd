"""Pure codecs and rules of private measurement: randomised response and ledger arithmetic."""
