/** The message is for the operator: it names the variable and what it must be. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}
