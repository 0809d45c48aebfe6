/** One environment variable: how to parse it, and its help text. */
export type Setting<Value> = {
  /** Used when the variable is not set, and shown by --help. Undefined: the variable is required. */
  default?: string
  help: string
  secret?: boolean
  parse: (text: string) => Value
}
export const setting = <Value>(definition: Setting<Value>): Setting<Value> => definition
