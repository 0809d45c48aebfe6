/** Every installation has this cell. */
export const defaultCellName = 'default'

export const cellNamePattern = '^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$'
