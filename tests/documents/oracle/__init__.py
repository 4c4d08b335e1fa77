"""What documents of libvirt say, read again: from libvirt's documentation of its formats, with
nothing of rtagent. The names in brackets are pages of that documentation."""
