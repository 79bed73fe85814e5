"""Edge: experiments that check the paper and compare methods."""
