import { X509Certificate } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pemFault } from '../agent/certificates/pem_fault.ts'
import { checkNodeKey } from '../agent/disk/node_key.ts'
import { readTrustedKeys } from '../commands/edge_node/settings.ts'
import type { EdgeConfig } from '../config/config.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { expiryFinding, type Finding, failed, ok, warning } from './finding.ts'
import { checkWritableFolder } from './folders.ts'
import type { Account } from './services.ts'

export async function checkEdgeFiles(config: EdgeConfig, account?: Account): Promise<Finding[]> {
  return [
    checkTrustedKeys(config),
    ...(await checkFolders(config, account)),
    ...(await checkCertificates(config.GATEHOUSE_EDGE_CERTIFICATES)),
    await checkUpstreamCa(config.GATEHOUSE_EDGE_UPSTREAM_CA_FILE),
  ]
}

function checkTrustedKeys(config: EdgeConfig): Finding {
  const check = 'edge.trusted_keys'
  try {
    readTrustedKeys(config, 'GATEHOUSE_EDGE_TRUSTED_KEYS')
    readTrustedKeys(config, 'GATEHOUSE_EDGE_EMERGENCY_KEYS')
    return ok(check, `${config.GATEHOUSE_EDGE_TRUSTED_KEYS.length} trusted`)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return failed(check, error.message, "Copy a key as 'gatehouse signing-keys list' prints it on the control plane")
  }
}

const own = "Give it to the user that runs 'gatehouse edge': chown"

async function checkFolders(config: EdgeConfig, account: Account | undefined): Promise<Finding[]> {
  const folder = config.GATEHOUSE_EDGE_FOLDER
  const written = [
    { check: 'edge.folder', setting: 'GATEHOUSE_EDGE_FOLDER', path: folder },
    ...config.GATEHOUSE_EDGE_ACCESS_LOG.flatMap((destination) =>
      destination.kind === 'file'
        ? [
            {
              check: 'edge.access_log',
              setting: 'The folder of GATEHOUSE_EDGE_ACCESS_LOG',
              path: dirname(destination.path),
            },
          ]
        : [],
    ),
  ]
  const findings = (await Promise.all(written.map((each) => checkWritableFolder({ ...each, account })))).flat()
  const keyFault = await checkNodeKey(folder)
  if (keyFault === undefined) return findings
  const [message = '', hint = own] = keyFault.split('. ')
  return [...findings.filter(({ status }) => status !== 'ok'), failed('edge.node_key', message, hint)]
}

/** Every PEM file for HAProxy, read like the agent reads them. */
async function checkCertificates(folder: string): Promise<Finding[]> {
  const check = 'certificates.files'
  const names = await readdir(folder).catch((error: Error) => error)
  if (names instanceof Error)
    return [failed(check, `GATEHOUSE_EDGE_CERTIFICATES is ${folder}, which cannot be read: ${names.message}`, own)]
  const files = names.filter((name) => name.endsWith('.pem')).sort()
  if (files.length === 0)
    return [
      warning(
        check,
        `${folder} has no .pem file`,
        'HTTPS edges work only for names with a certificate of an account. Put certificate, chain and key into one file here',
      ),
    ]
  const findings = (await Promise.all(files.map((name) => checkCertificate(check, join(folder, name))))).flat()
  const wrong = findings.filter(({ status }) => status !== 'ok')
  return wrong.length > 0 ? wrong : [ok(check, `${files.length} in ${folder} can be used`)]
}

async function checkCertificate(check: string, file: string): Promise<Finding[]> {
  const pem = await readFile(file, 'latin1').catch((error: Error) => error)
  if (pem instanceof Error) return [failed(check, `${file} cannot be read: ${pem.message}`, own)]
  const fault = pemFault(pem)
  if (fault)
    return [
      failed(
        check,
        `${file} is not served: ${fault}`,
        'Put certificate, chain and unencrypted key into it, in this order',
      ),
    ]
  const { validFromDate, validToDate } = new X509Certificate(pem)
  const isOpen = ((await stat(file)).mode & 0o007) !== 0
  return [
    expiryFinding(check, file, validFromDate, validToDate, 'Replace the file; the agent loads it within seconds'),
    ...(isOpen
      ? [
          warning(
            check,
            `${file} has a private key, and everyone on this machine can read it`,
            `Run: chmod 640 ${file}`,
          ),
        ]
      : []),
  ]
}

async function checkUpstreamCa(file: string): Promise<Finding> {
  const check = 'certificates.upstream_ca'
  const hint = 'Install ca-certificates, or set GATEHOUSE_EDGE_UPSTREAM_CA_FILE to your own authority'
  const pem = await readFile(file, 'latin1').catch((error: Error) => error)
  if (pem instanceof Error)
    return failed(check, `GATEHOUSE_EDGE_UPSTREAM_CA_FILE is ${file}, which cannot be read: ${pem.message}`, hint)
  return pem.includes('BEGIN CERTIFICATE')
    ? ok(check, `${file} can be read`)
    : failed(check, `${file} has no certificate in PEM form`, hint)
}
