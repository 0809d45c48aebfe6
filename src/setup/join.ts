// `gatehouse setup --join-control-plane`: adds a machine to an installation that another machine already serves.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { withDatabase } from '../commands/database.ts'
import { readyUrl } from '../commands/start_unit.ts'
import { readConfig } from '../config/config.ts'
import { settings } from '../config/server.ts'
import { version } from '../config/version.ts'
import { checkControlPlane } from '../doctor/control_plane.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { type Bundle, bundledFiles, newKey, publicKey, systemOf, unseal } from './bundle.ts'
import { environment, type Folders, folders, forEveryone, secret, writeOnce } from './files.ts'
import { requirePrograms, serviceStep } from './services.ts'
import { perform, type Step } from './step.ts'

type Order = { bundle?: string | undefined; listen?: string | undefined; plan: boolean }

export async function joinControlPlane({ bundle: file, listen, plan }: Order): Promise<number> {
  requirePrograms(['systemctl', 'age', 'age-keygen'])
  if (file === undefined) return askForBundle(folders)
  const bundle = await openBundle(folders, readFileSync(file === '-' ? 0 : file, 'utf8'), listen)
  const at = readConfig({ ...bundle.settings, GATEHOUSE_DATABASE_URL: bundle.files['database-url'] }).GATEHOUSE_LISTEN
  const service = serviceStep('gatehouse.service', () => readyUrl(at))
  await perform([...joinSteps(folders, bundle), service, spentKeyStep(folders)], plan)
  if (!plan) tellWhatIsLeft(bundle, `${at.host}:${at.port}`)
  return 0
}

const keyFileOf = ({ controlPlane }: Folders): string => join(controlPlane, 'join.key')

/** Existing files belong to this installation or another one, which only their owner can know. */
function askForBundle(at: Folders): number {
  const present = ['setup.env', ...Object.keys(bundledFiles)].filter((name) => existsSync(join(at.controlPlane, name)))
  if (present.length > 0)
    throw new ConfigError(
      `this machine has been set up: ${at.controlPlane} has ${present.join(', ')}. Move them elsewhere if it is to join another machine`,
    )
  const keyFile = keyFileOf(at)
  const key = existsSync(keyFile) ? publicKey(keyFile) : newKey(keyFile)
  console.log(`\
On a machine that serves, as root, with this machine's key:
  gatehouse setup --admit-control-plane ${key} >control-plane.bundle

Copy the file to this machine. Only this machine can read it, and only once. Then:
  gatehouse setup --join-control-plane --bundle control-plane.bundle --listen ADDRESS:8080`)
  return 0
}

/** Finds every possible fault before anything is written. */
export async function openBundle(at: Folders, sealed: string, listen: string | undefined): Promise<Bundle> {
  const keyFile = keyFileOf(at)
  if (!existsSync(keyFile))
    throw new ConfigError(
      `${keyFile} is missing, so no bundle is for this machine. Run 'gatehouse setup --join-control-plane' first. If it has joined, there is nothing left to do`,
    )
  const bundle = unseal(sealed, keyFile)
  if (bundle.version !== version)
    throw new ConfigError(
      `the bundle is of ${bundle.version}, and this machine has ${version}. Install the same version on both, and make another bundle`,
    )
  const own = join(at.controlPlane, 'gatehouse.env')
  const yours = existsSync(own) ? parseEnv(readFileSync(own, 'utf8')) : {}
  const known = Object.entries(bundle.files).filter(([name]) => name in bundledFiles)
  const whole = {
    ...bundle,
    files: Object.fromEntries(known),
    settings: {
      ...Object.fromEntries(Object.entries(bundle.settings).filter(([name]) => name in settings)),
      ...(listen && { GATEHOUSE_LISTEN: listen }),
      // Takes precedence, because the address belongs to this machine.
      ...(yours.GATEHOUSE_LISTEN && { GATEHOUSE_LISTEN: yours.GATEHOUSE_LISTEN }),
    },
  }
  requireNoConflict(at, whole, own, yours)
  await requireFit(whole)
  return whole
}

function requireNoConflict(at: Folders, bundle: Bundle, own: string, yours: NodeJS.Dict<string>): void {
  for (const [name, value] of Object.entries(yours))
    if (value && value !== (bundle.settings as NodeJS.Dict<string>)[name])
      throw new ConfigError(`${own} sets ${name} to another value than the other machine has. Remove it there`)
  const other = contentsOf(at, bundle).filter(
    ({ file, text }) => existsSync(file) && readFileSync(file, 'utf8') !== text,
  )
  if (other.length > 0)
    throw new ConfigError(
      `${other.map(({ file }) => file).join(', ')} would be overwritten. Move what is of another installation elsewhere`,
    )
}

/** Runs the checks of `gatehouse doctor` on temporary files. */
async function requireFit({ settings: its, files, system }: Bundle): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-join-'))
  try {
    const temporary = (name: keyof typeof bundledFiles): string => {
      const file = join(folder, name)
      writeFileSync(file, files[name] ?? '', { mode: secret, flag: 'wx' })
      return file
    }
    const would = {
      ...its,
      GATEHOUSE_DATABASE_URL: files['database-url']?.trim(),
      GATEHOUSE_NATS_PASSWORD: files['nats-password']?.trim(),
      ...(files['secrets.key'] && { GATEHOUSE_SECRETS_KEY_FILE: temporary('secrets.key') }),
      ...(files['nats-ca.pem'] && { GATEHOUSE_NATS_CA_FILE: temporary('nats-ca.pem') }),
    }
    const findings = (await Promise.all(checkControlPlane(would))).flat()
    const faults = findings.filter(({ status }) => status === 'failed')
    if (faults.length > 0)
      throw new ConfigError(
        `this machine cannot serve, and nothing was changed:\n${faults.map(({ check, message, hint }) => `  ${check}: ${message}. ${hint}`).join('\n')}`,
      )
    if ((await withDatabase(readConfig(would), systemOf)) !== system)
      throw new ConfigError(
        'the servers of the database lead to another database here than on the other machine, and nothing was changed. Do the names in the URL have the same addresses on both?',
      )
  } finally {
    rmSync(folder, { recursive: true })
  }
}

type Content = { file: string; text: string; mode: number; about: string }

function contentsOf(at: Folders, { settings: its, files }: Bundle): Content[] {
  const texts = Object.entries(files).map(([name, text]) => ({ name, text }))
  return [
    ...texts.map(({ name, text }) => ({
      file: join(at.controlPlane, name),
      text,
      mode: bundledFiles[name as keyof typeof bundledFiles],
      about: 'the same as on the other machine',
    })),
    {
      file: join(at.controlPlane, 'setup.env'),
      text: environment(Object.fromEntries(Object.entries(its).map(([name, value]) => [name, quoted(name, value)]))),
      // The URL of NATS may have a password.
      mode: its.GATEHOUSE_NATS_URL?.includes('@') ? secret : forEveryone,
      about: 'settings of the other machine, with the address of this one',
    },
  ]
}

/** In a form that systemd and Node parse alike. */
function quoted(name: string, value: string): string {
  if (/^[\w.,:;/@%+=?&~[\]*-]*$/.test(value)) return value
  if (/['\\\n]/.test(value))
    throw new ConfigError(`${name} has a quote, a backslash or a line break. Set it in gatehouse.env of both machines`)
  return `'${value}'`
}

/** Writes setup.env last: its existence means that all files do. */
export const joinSteps = (at: Folders, bundle: Bundle): Step[] =>
  contentsOf(at, bundle).map(({ file, text, mode, about }) => ({
    what: `${file}: ${about}`,
    isDone: () => existsSync(file),
    run: () => writeOnce(file, text, mode),
  }))

export const spentKeyStep = (at: Folders): Step => ({
  what: `${keyFileOf(at)} is deleted, so that the bundle has no further use`,
  isDone: () => !existsSync(keyFileOf(at)),
  run: () => rmSync(keyFileOf(at)),
})

function tellWhatIsLeft({ unknown }: Bundle, place: string): void {
  console.log(`
This machine serves the API at ${place}. Next:
- Delete the bundle on both machines.
- Add ${place} to the proxy in front of the API, and this machine's proxy to GATEHOUSE_TRUSTED_PROXIES of all machines.
- Run 'gatehouse doctor' on each machine. 'gatehouse cells list' shows which one sends changes.`)
  if (unknown.length > 0) console.log(`- Not copied, because the program does not know it: ${unknown.join(', ')}.`)
}
