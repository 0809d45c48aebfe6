/** The message tells the operator the variable and its valid values. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}
