"""How the families of test vectors of this room are computed: case in, named results out."""

COVERED = {}
