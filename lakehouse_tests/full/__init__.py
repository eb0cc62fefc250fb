"""Everything at full scale: many kills, races, disks, clusters, long histories, the stack, the browser."""
