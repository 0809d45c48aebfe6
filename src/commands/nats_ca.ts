import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ConfigError } from '../kernel/config_error.ts'

/** At start: later it would look like a NATS that cannot be reached, and be tried again forever. */
export function requireNatsCa(file: string): void {
  if (file === '') return
  const is = `GATEHOUSE_NATS_CA_FILE is ${file}, which`
  let pem: string
  try {
    pem = readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ConfigError(`${is} cannot be read: ${(cause as Error).message}`, { cause })
  }
  try {
    new X509Certificate(pem)
  } catch (cause) {
    throw new ConfigError(`${is} has no certificate in PEM form`, { cause })
  }
}
