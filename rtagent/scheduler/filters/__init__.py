"""The filters. Their classes have the names that operators know from Nova."""
