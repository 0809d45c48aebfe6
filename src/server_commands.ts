import { edgeSettings, settings, settingsHelp } from './config.ts'
import { version } from './version.ts'

type ServerCommand = {
  /** What to type after `gatehouse`, and what it does. */
  readonly forms: readonly [usage: string, does: string][]
  /** Which environment variables it reads. */
  readonly settings?: Parameters<typeof settingsHelp>[0]
}

/** What an operator runs on the machines of an installation. Every other command is a client of the API. */
const commands: Record<string, ServerCommand> = {
  setup: {
    forms: [
      [
        'setup [--plan] [--account NAME] [--admin-name NAME] [--admin-email ADDRESS] [--public-url URL]',
        'set up everything on one Debian machine: database, NATS, an account and an edge node; --plan only prints it',
      ],
    ],
  },
  serve: { forms: [['serve', 'serve the API']], settings },
  edge: {
    forms: [
      ['edge', 'run an edge node: configure HAProxy on this machine from the API'],
      ['edge status', 'show the state of the edge node on this machine'],
    ],
    settings: edgeSettings,
  },
  doctor: {
    forms: [
      [
        'doctor [--service NAME | --env-file FILE] [--output text|json]',
        'check what the services of this machine need, also while they are stopped, and say what to do about each fault; with settings in the environment or in a file, what a program with these settings needs',
      ],
    ],
  },
  status: {
    forms: [
      [
        'status [--watch] [--output text|json] [--profile NAME]',
        'show the API, the publisher, edge nodes, certificates and the edge node of this machine; exits with 9 if something is wrong or unknown',
      ],
    ],
  },
  migrate: { forms: [['migrate', 'upgrade the database to this version']], settings },
  bootstrap: {
    forms: [
      [
        'bootstrap [--account NAME] [--admin-name NAME] [--admin-email ADDRESS]',
        'create an account with an admin and an API key, and print its token',
      ],
    ],
    settings,
  },
  recover: {
    forms: [
      ['recover --account NAME|ac_…', 'create a new API key for an admin of an account that has lost all of its keys'],
    ],
    settings,
  },
  'signing-keys': {
    forms: [['signing-keys list | add | activate KEY', 'manage the keys that sign records for edge nodes']],
    settings,
  },
  'edge-keys': {
    forms: [
      [
        'edge-keys list | accept NODE FINGERPRINT | revoke NODE',
        'manage the keys of edge nodes, to which private keys of certificates are encrypted',
      ],
    ],
    settings,
  },
  secrets: {
    forms: [
      [
        'secrets list | rotate',
        'show which keys encrypt certificate private keys and webhook secrets; encrypt all with the current key',
      ],
    ],
    settings,
  },
  'ip-restrictions release': {
    forms: [
      [
        'ip-restrictions release --account NAME|ac_… --type api|dashboard|agent|endpoints',
        'make the enforced restrictions of a type only warn, to recover from a lockout',
      ],
    ],
    settings,
  },
  'rate-limits': {
    forms: [
      [
        'rate-limits list | set --account NAME|ac_… --requests-per-minute N | clear --account NAME|ac_…',
        'manage how many requests each API key of an account may make',
      ],
    ],
    settings,
  },
  quotas: {
    forms: [
      [
        'quotas list | set --account NAME|ac_… --kind KIND --limit N | clear --account NAME|ac_… --kind KIND',
        'manage how many of each thing an account may store',
      ],
    ],
    settings,
  },
  domains: {
    forms: [
      [
        'domains list | assign ACCOUNT DOMAIN | unassign ACCOUNT DOMAIN',
        'assign a domain to an account without DNS verification',
      ],
    ],
    settings,
  },
  'after-restore': {
    forms: [
      ['after-restore', 'run once after restoring the database from a backup, so that edge nodes accept new changes'],
    ],
    settings,
  },
  version: { forms: [['version', 'print the version']] },
  help: { forms: [['help COMMAND', 'show the help of a command']] },
}

/** By the first word, which is all that tells a server command from a client's but for `ip-restrictions release`. */
export const serverCommands: readonly string[] = Object.keys(commands).filter((name) => !name.includes(' '))

const described = (forms: ServerCommand['forms']): string =>
  forms.map(([usage, does]) => `  gatehouse ${usage}\n      ${does}`).join('\n')

export const serverUsage =
  (): string => `Gatehouse ${version}: a control plane for API keys, IP restrictions and network edges.

Server commands:

${described(Object.values(commands).flatMap(({ forms }) => forms))}

  gatehouse help <command>, or <command> --help, shows more, such as the environment variables that it reads.
`

/** Undefined when it is no server command. */
export function helpOfServerCommand([first = '', second]: readonly string[]): string | undefined {
  const command = commands[`${first} ${second}`] ?? commands[first]
  if (!command) return undefined
  const reads = command.settings ? `\n\nSettings, from the environment:\n${settingsHelp(command.settings)}` : ''
  return described(command.forms) + reads
}
