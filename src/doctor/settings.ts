import { statSync } from 'node:fs'
import { clientSettings } from '../config/client.ts'
import { settingFaults } from '../config/config.ts'
import { edgeSettings } from '../config/edge.ts'
import { settings } from '../config/server.ts'
import { closest } from '../kernel/closest.ts'
import { type Finding, failed, ok, warning } from './finding.ts'

type Environment = NodeJS.ProcessEnv

/** The programs that these variables are for. Some, such as those of NATS, are for both and indicate neither. */
export function rolesIn(environment: Environment): { controlPlane: boolean; edge: boolean } {
  const isSet = (name: string) => Boolean(environment[name] || environment[`${name}_FILE`])
  const onlyIn = (ours: object, others: object) =>
    Object.keys(ours).some((name) => !Object.hasOwn(others, name) && isSet(name))
  return { controlPlane: onlyIn(settings, edgeSettings), edge: onlyIn(edgeSettings, settings) }
}

/** Reports all wrong settings at once; `serve` and `edge` stop at the first. */
export function checkSettings(known: typeof settings | typeof edgeSettings, environment: Environment): Finding[] {
  const faults = settingFaults(known, environment).map((fault) =>
    failed('settings', fault, `'gatehouse ${known === settings ? 'serve' : 'edge'} --help' explains every setting`),
  )
  return faults.length > 0 ? faults : [ok('settings', `all settings of 'gatehouse ${commandOf(known)}' can be read`)]
}
const commandOf = (known: object) => (known === settings ? 'serve' : 'edge')

/** Passwords of `deploy/nats/authorization.conf` are in the same environment if everything runs on one machine. */
const ofNatsServer = /^GATEHOUSE_NATS_\w+_PASSWORD$/

/** `serve` does not report a misspelled variable: the default applies unnoticed. */
export function checkNames(environment: Environment): Finding[] {
  const all = { ...settings, ...edgeSettings, ...clientSettings }
  const known = Object.entries(all).flatMap(([name, { secret }]) => (secret ? [name, `${name}_FILE`] : [name]))
  return Object.keys(environment)
    .filter((name) => name.startsWith('GATEHOUSE_') && !known.includes(name) && !ofNatsServer.test(name))
    .map((name) => {
      const meant = closest(name, known)
      return warning(
        'settings.unknown',
        `${name} is not a setting and has no effect`,
        meant ? `Did you mean ${meant}?` : 'Remove it',
      )
    })
}

/**
 * Files that contain a secret, such as that of GATEHOUSE_DATABASE_URL_FILE. Unreadable ones are faults of the settings.
 */
export function checkSecretFiles(known: typeof settings | typeof edgeSettings, environment: Environment): Finding[] {
  return Object.entries(known).flatMap(([name, { secret }]) => {
    const file = secret && !environment[name] ? environment[`${name}_FILE`] : undefined
    const isOpen = file && ((statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o007) !== 0
    return isOpen
      ? [warning('secrets.files', `${name}_FILE is ${file}, which everyone can read`, `Run: chmod 600 ${file}`)]
      : []
  })
}
