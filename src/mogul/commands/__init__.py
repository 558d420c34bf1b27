"""What the commands do, without a word about terminals: from files to results, and from results to files."""
