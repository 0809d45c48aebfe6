import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigError } from '../kernel/config_error.ts'
import { type Folders, forEveryone, secret, writeOnce } from './files.ts'
import { ifRunning } from './services.ts'
import type { Step } from './step.ts'

const renewBeforeMs = 60 * 24 * 60 * 60 * 1_000

/**
 * A certificate for NATS from its own authority, whose key the group may read. Replaced if it lacks `outside`, the host
 * under which other machines reach NATS, or is about to expire: clients trust the authority, so they do not notice.
 */
export const certificateStep = (at: Folders, group: string, outside?: string): Step => {
  const names = [...new Set(['localhost', hostname(), ...(outside ? [outside] : [])])]
  return {
    what: `${at.nats}/server.pem, server.key, ca.pem: a certificate for NATS at ${names.join(', ')}, and its authority`,
    isDone: () => existsSync(join(at.nats, 'server.pem')) && isGood(at.nats, outside),
    run: () => {
      makeCertificate(at.nats, group, names)
      ifRunning('reload-or-restart', 'gatehouse-nats.service')
    },
  }
}

function isGood(nats: string, outside: string | undefined): boolean {
  const file = join(nats, 'server.pem')
  const certificate = new X509Certificate(readFileSync(file))
  const isFor = (name: string) => Boolean(isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name))
  const hasName = outside === undefined || isFor(outside)
  if (existsSync(join(nats, 'ca.key'))) return hasName && certificate.validToDate.getTime() > Date.now() + renewBeforeMs
  // Another authority has signed it, or ours was moved to a safe place.
  if (!hasName)
    throw new ConfigError(
      `${file} is not for ${outside}, and ${nats}/ca.key, which could sign another, is missing. Issue a certificate for ${outside} yourself, or put ca.key back`,
    )
  return true
}

/**
 * Uses openssl, because Node cannot create certificates. Writes server.pem last: its existence means that all files do.
 */
function makeCertificate(nats: string, group: string, names: readonly string[]): void {
  const work = mkdtempSync(join(tmpdir(), 'gatehouse-setup-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: work, stdio: ['ignore', 'ignore', 'pipe'] })
  const newKey = ['req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  const authority = { certificate: join(nats, 'ca.pem'), key: join(nats, 'ca.key') }
  try {
    if (!existsSync(authority.certificate)) {
      const subject = ['-x509', '-days', '3650', '-subj', '/CN=Gatehouse authority']
      openssl(...newKey, ...subject, '-keyout', 'ca.key', '-out', 'ca.pem')
      writeOnce(authority.key, readFileSync(join(work, 'ca.key'), 'utf8'), secret)
      writeOnce(authority.certificate, readFileSync(join(work, 'ca.pem'), 'utf8'), forEveryone)
    }
    openssl(...newKey, '-subj', '/CN=gatehouse-nats', '-keyout', 'server.key', '-out', 'server.csr')
    const alternatives = [...names, '127.0.0.1'].map((name) => `${isIP(name) ? 'IP' : 'DNS'}:${name}`)
    writeFileSync(join(work, 'server.ext'), `subjectAltName=${alternatives.join(',')}\n`)
    const signer = ['-CA', authority.certificate, '-CAkey', authority.key, '-CAcreateserial', '-CAserial', 'ca.srl']
    const request = ['x509', '-req', '-in', 'server.csr', ...signer, '-days', '825', '-extfile', 'server.ext']
    openssl(...request, '-out', 'server.pem')
    replace(join(nats, 'server.key'), readFileSync(join(work, 'server.key'), 'utf8'), 0o640, group)
    replace(join(nats, 'server.pem'), readFileSync(join(work, 'server.pem'), 'utf8'), forEveryone)
  } finally {
    rmSync(work, { recursive: true })
  }
}

function replace(file: string, text: string, mode: number, group?: string): void {
  const made = `${file}.new`
  rmSync(made, { force: true })
  writeFileSync(made, text, { mode: secret, flag: 'wx', flush: true })
  if (group) execFileSync('chgrp', [group, made])
  chmodSync(made, mode)
  renameSync(made, file)
}
