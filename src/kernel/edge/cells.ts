/** Every installation has this cell. */
export const defaultCellName = 'default'

export const cellNamePattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'

/** Largest number of nodes in a cell among which limits are divided. */
export const maxCountedNodes = 100_000

/** Nodes of a wave get a change after it was watched on the previous wave. */
export const maxWaves = 5
