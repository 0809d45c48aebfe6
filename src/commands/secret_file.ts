import { writeFileSync } from 'node:fs'
import { ConfigError } from '../kernel/config_error.ts'

/** Readable only by its owner. Never overwrites a file. */
export function writeSecretOnce(file: string, text: string): void {
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx', flush: true })
  } catch (cause) {
    throw new ConfigError(`${file} cannot be written: ${(cause as Error).message}`, { cause })
  }
}
