import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { ConfigError } from '../kernel/config_error.ts'

/** Checked at the start: later, the fault would look like an unreachable NATS and be retried forever. */
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
