"""The write path, in the order a turn travels: admit, worker, index, facts."""
