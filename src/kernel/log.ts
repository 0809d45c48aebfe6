/** What the publisher and the agent need of a log. */
export type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
