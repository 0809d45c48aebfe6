// `gatehouse terraform-provider`: the process that Terraform starts, and its installation for Terraform.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { log } from '../cli/output/terminal.ts'
import type { ClientConfig } from '../cli/profiles.ts'

/**
 * A host name that no one can register, so that a machine without this provider cannot download one of the same name
 * from a stranger.
 */
const source = 'gatehouse.internal/gatehouse/gatehouse'
/** Identical on every machine, because Terraform's lock file contains its checksum. */
const script = '#!/bin/sh\nexec gatehouse terraform-provider\n'
/** Not a secret: it shows that Terraform started the process, not a person at a prompt. */
const cookie = 'd602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2'

export async function terraformProvider(
  environment: NodeJS.ProcessEnv,
  version: string,
  readConfig: () => ClientConfig,
  args: string[],
): Promise<number> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
  const [verb, folder = join(homedir(), '.terraform.d/plugins')] = positionals
  if (verb === 'install') return install(folder, version)
  if (verb === undefined && environment.TF_PLUGIN_MAGIC_COOKIE === cookie) {
    const [{ servePlugin }, { providerHandlers }] = await Promise.all([import('./plugin.ts'), import('./provider.ts')])
    return servePlugin(environment.PLUGIN_CLIENT_CERT ?? '', providerHandlers(readConfig))
  }
  log("This is started by Terraform. To make Terraform find it, run 'gatehouse terraform-provider install'.")
  return 2
}

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

function install(folder: string, version: string): number {
  const target = `${process.platform}_${architectures[process.arch] ?? process.arch}`
  const place = join(folder, source, version, target)
  const file = join(place, `terraform-provider-gatehouse_v${version}`)
  mkdirSync(place, { recursive: true })
  writeFileSync(file, script)
  chmodSync(file, 0o755)
  process.stdout.write(`${file}\n
terraform {
  required_providers {
    gatehouse = {
      source = "${source}"
    }
  }
}
`)
  return 0
}
