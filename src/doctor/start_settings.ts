import { readAcmeSettings } from '../commands/acme.ts'
import { requireNatsCa } from '../commands/nats_ca.ts'
import { readSignInProviders } from '../commands/sign_in.ts'
import type { Config } from '../config/config.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { type Finding, failed, ok } from './finding.ts'

/** The other files that `serve` reads at its start, each with the function that `serve` uses. */
export async function checkStartSettings(config: Config): Promise<Finding[]> {
  const check = 'settings.files'
  const reads = [
    () => readSignInProviders(config),
    () => readAcmeSettings(config),
    () => requireNatsCa(config.GATEHOUSE_NATS_CA_FILE),
  ]
  const findings: Finding[] = []
  for (const read of reads)
    try {
      await read()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      findings.push(failed(check, error.message, "Correct it: 'gatehouse serve' does not start otherwise"))
    }
  return findings.length > 0 ? findings : [ok(check, 'the files that settings name can be read')]
}
