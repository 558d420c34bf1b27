"""What tests share: small models and data, checks that several rooms run, terminals, broken files."""
