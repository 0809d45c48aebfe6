export type Log = Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
