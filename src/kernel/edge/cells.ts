/** Every installation has this cell. */
export const defaultCellName = 'default'

export const cellNamePattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'

/** How many nodes a cell may have, as far as limits are divided among them. */
export const maxCountedNodes = 100_000

/** A node of a later wave gets changes after they were watched in the one before. */
export const maxWaves = 5
