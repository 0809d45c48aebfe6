/** The part of a logger that the publisher and the agent use. */
export type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
