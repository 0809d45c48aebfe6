import { nodeName } from '../config/values.ts'
import { ConfigError } from '../kernel/config_error.ts'

/** The value of --name. */
export function nodeNameFlag(value: string): string {
  try {
    return nodeName(value)
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`--name ${error.message}`) : error
  }
}
