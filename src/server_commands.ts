import { paragraph, twoColumns } from './cli/output/two_columns.ts'
import { edgeSettings } from './config/edge.ts'
import { settings } from './config/server.ts'
import type { Setting } from './config/setting.ts'
import { version } from './config/version.ts'

type Rows = readonly (readonly [typed: string, does: string])[]
type ServerCommand = {
  /** Arguments after `gatehouse`, and a description. */
  readonly forms: Rows
  readonly flags?: Rows
  /** Environment variables that it reads. */
  readonly settings?: Parameters<typeof settingsHelp>[0]
  /** Whether it also reads the settings of 'serve', most of which it ignores. */
  readonly readsAll?: boolean
}

type SettingName = keyof typeof settings
/** Settings of a command that works on the database. */
const database = (...names: SettingName[]): Pick<ServerCommand, 'settings' | 'readsAll'> => ({
  settings: Object.fromEntries(
    (['GATEHOUSE_DATABASE_URL', ...names] as const).map((name) => [name, settings[name]]),
  ) as ServerCommand['settings'] & {},
  readsAll: true,
})

const account = ['--account NAME|ac_…', 'the account'] as const

/** Commands for operators, run on machines of the installation. All others are clients of the API. */
const commands: Record<string, ServerCommand> = {
  setup: {
    forms: [
      ['setup', 'set up everything on one Debian machine: database, NATS, an account and an edge node'],
      ['setup --join-control-plane', 'make this machine serve an installation that another one serves'],
      ['setup --admit-control-plane KEY', 'print what the machine with this key needs for that, encrypted to it'],
    ],
    flags: [
      ['--plan', 'only print what would be done'],
      ['--database-only', "only make the empty database and its roles, for 'gatehouse restore'"],
      ['--account NAME', 'name of the account to create'],
      ['--admin-name NAME', 'name of its first admin'],
      ['--admin-email ADDRESS', 'email address of its first admin'],
      [
        '--public-url URL',
        'URL at which clients and nodes on other machines reach the service; may be given later, too',
      ],
      ['--bundle FILE', 'with --join-control-plane: what --admit-control-plane has printed; - for the standard input'],
      ['--listen ADDRESS:PORT', 'with --join-control-plane: where the API of this machine listens'],
    ],
  },
  serve: {
    forms: [
      ['serve', 'run the control plane: the API, the dashboard, the documentation, and sending changes to edge nodes'],
    ],
    settings,
  },
  edge: {
    forms: [
      ['edge', 'run an edge node: configure HAProxy on this machine from the API'],
      ['edge join URL', 'make this machine an edge node of the control plane at URL'],
      ['edge status', 'show the state of the edge node on this machine'],
      [
        'edge apply-emergency FILE',
        "give the edge node on this machine an order of 'gatehouse emergency', which needs no control plane",
      ],
    ],
    flags: [
      [
        '--token TOKEN',
        "with join: a token of 'gatehouse nodes invite'; or in GATEHOUSE_JOIN_TOKEN, or in the file GATEHOUSE_JOIN_TOKEN_FILE",
      ],
      ['--name NAME', "with join: the node's name, unless the token has one; default: the name of this machine"],
      ['--settings FILE', 'with join: where to write the settings; default /etc/gatehouse-edge/joined.env'],
      [
        '--if-needed',
        'with join: succeed if this machine has joined; wait a minute for a control plane that is starting',
      ],
      ['--allow-http', 'with join: accept a URL without TLS, inside one machine or network that you trust'],
    ],
    settings: edgeSettings,
  },
  doctor: {
    forms: [
      [
        'doctor',
        'check what the services of this machine need, even while they are stopped, and say what to do about each fault; with settings in the environment or in a file, check those instead',
      ],
    ],
    flags: [
      ['--service NAME', 'only this service of the machine'],
      ['--env-file FILE', "read settings from a file too, in the format of systemd's EnvironmentFile"],
      ['--output text|json', 'output format; default text'],
    ],
  },
  status: {
    forms: [
      [
        'status',
        'show the API, the publisher, edge nodes, certificates, the newest backup and the edge node of this machine; exits with 9 if something is wrong or unknown',
      ],
    ],
    flags: [
      ['-w, --watch', 'show it again every two seconds until Ctrl-C'],
      ['-o, --output text|json', 'output format; default text'],
      ['--profile NAME', 'profile to use instead of the environment or the current profile'],
    ],
  },
  migrate: {
    forms: [['migrate', 'upgrade the database to this version']],
    ...database(
      'GATEHOUSE_DATABASE_APP_ROLE',
      'GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS',
      'GATEHOUSE_AUDIT_RETENTION_MONTHS',
      'GATEHOUSE_WILDCARD_SUFFIXES',
    ),
  },
  bootstrap: {
    forms: [['bootstrap', 'create an account with an admin and an API key, and print its token']],
    flags: [
      ['--account NAME', 'name of the account; default: default'],
      ['--admin-name NAME', 'name of its admin; default: admin'],
      ['--admin-email ADDRESS', 'email address of its admin; default: admin@localhost'],
    ],
    ...database('GATEHOUSE_PUBLIC_URL', 'GATEHOUSE_DOMAIN_OWNERSHIP'),
  },
  recover: {
    forms: [['recover', 'create a new API key for an admin of an account that has lost all of its keys']],
    flags: [['--account NAME|ac_…', 'the account; default: default']],
    ...database('GATEHOUSE_PUBLIC_URL'),
  },
  'signing-keys': {
    forms: [
      ['signing-keys list', 'list the keys that sign records for edge nodes'],
      ['signing-keys add', 'create a key, which signs nothing until it is activated'],
      ['signing-keys activate KEY', 'sign with this key from now on'],
    ],
    ...database(),
  },
  nats: {
    forms: [
      ['nats init', 'create the keys with which nodes join, for NATS in operator mode'],
      ['nats conf', 'print what nats.conf has to include for operator mode'],
      ['nats leaf CELL…', 'make the credentials of a leaf server, to which nodes of these cells connect'],
      [
        'nats unlink CELL',
        'close the links of all leaf servers in a cell: after one was stolen, or when there are none',
      ],
    ],
    flags: [
      [
        '--root-key FILE',
        'with init: where to write the root key, which is to be kept offline, or - to print it; required',
      ],
      [
        '--folder FOLDER',
        'with conf and leaf: where nats-server keeps the accounts; default /var/lib/gatehouse-nats/accounts',
      ],
      [
        '--hub URL,…',
        'with leaf: where the servers of the control plane accept leaf servers, such as tls://nats-1:7422',
      ],
      ['--address URL,…', 'with leaf: where nodes of the cells reach their leaf servers, such as tls://nats-eu:4222'],
      ['--out FOLDER', 'with leaf: a new folder for the files; they are secret'],
      ['--at FOLDER', 'with leaf: the folder that they are copied to; default /etc/gatehouse-nats'],
    ],
    ...database('GATEHOUSE_SECRETS_KEY_FILE', 'GATEHOUSE_NATS_URL', 'GATEHOUSE_NATS_CA_FILE'),
  },
  nodes: {
    forms: [
      ['nodes list', 'list the edge nodes that have joined'],
      ['nodes invite', 'print a token with which one machine can join'],
      ['nodes revoke NAME', 'cut a node off and never let it connect again, or withdraw its invitation'],
      [
        'nodes events',
        'list which nodes were invited, joined, refused or revoked, had their HAProxy changed, or follow an emergency order',
      ],
    ],
    flags: [
      ['--name NAME', 'with invite: the name that the node gets; default: the one that it asks for'],
      ['--wave N', 'with invite: the wave of the node; a later one gets changes after they were watched; default 0'],
      ['--expires TIME', 'with invite: how long the token is valid, such as 30m, 1h or 2d; default 1h'],
    ],
    ...database('GATEHOUSE_SECRETS_KEY_FILE', 'GATEHOUSE_NATS_URL', 'GATEHOUSE_NATS_CA_FILE', 'GATEHOUSE_PUBLIC_URL'),
  },
  emergency: {
    forms: [
      ['emergency init', 'make the key that signs emergency orders, to be kept offline'],
      [
        'emergency refuse RANGE…',
        'print an order that nodes refuse these addresses, to be carried to them while the control plane is dead',
      ],
      ['emergency lift ID', 'print an order that ends another one'],
    ],
    flags: [
      ['--key FILE', 'file of the private key; default emergency.key'],
      ['--cell NAME', 'only for nodes of this cell; may be repeated'],
      ['--for TIME', 'with refuse: how long, such as 30m, 2h or 7d, the longest; default 1h'],
      ['--reason TEXT', 'with refuse: why, for those who read the events later'],
      ['--everyone', 'with refuse: accept a range that has every address'],
    ],
  },
  rollouts: {
    forms: [
      [
        'rollouts list',
        'where the database is at hand: list the changes of all accounts on their way through the waves of cells, and the latest that have arrived',
      ],
      ['rollouts halt NUMBER', 'take a change back from the nodes that have it, and keep it from all others'],
      ['rollouts resume NUMBER', 'give a halted change to the first wave again, and watch it'],
      ['rollouts release NUMBER', 'give a change to all waves without watching it'],
    ],
    flags: [['--reason TEXT', 'with halt, resume and release: why, for those who read it later']],
    ...database(),
  },
  cells: {
    forms: [
      [
        'cells list',
        'list the cells, with the number of their nodes and accounts, the process that sends them changes, and what halts these',
      ],
      ['cells create NAME', 'create a cell, a set of nodes that serve the same accounts'],
      ['cells set NAME', 'set how changes are watched in a cell with waves, and what halts them'],
      ['cells delete NAME', 'delete a cell without nodes and accounts'],
      ['cells place ACCOUNT CELL…', 'let exactly these cells serve an account'],
      ['cells show ACCOUNT', 'show which cells serve an account, and which of its edges name them'],
    ],
    flags: [
      ['--default', 'with create: it serves all accounts that are placed nowhere; with place: place it nowhere'],
      [
        '--yes',
        'with create --default: serve these accounts without confirmation; with place: also remove unusually many edges, routes and backends from a cell',
      ],
      ['--dry-run', 'with place: only print what would change'],
      ['--soak-seconds N', 'with set: how long a wave is watched; at first 30'],
      [
        '--halt-addresses N|off',
        'with set: halt when so many addresses that an edge or route let in lately are refused; at first 50',
      ],
      ['--halt-addresses-percent N|off', 'with set: halt when this share of them is refused; at first 20'],
      [
        '--halt-errors-percent N|off',
        'with set: halt when the share of failed requests has risen by so many percentage points; at first 20',
      ],
    ],
    ...database('GATEHOUSE_UNUSUAL_CHANGE_ENTRIES', 'GATEHOUSE_UNUSUAL_CHANGE_PERCENT'),
  },
  'edge-keys': {
    forms: [
      ['edge-keys list', 'list the keys of edge nodes, to which certificate private keys are encrypted'],
      ['edge-keys accept NODE FINGERPRINT', 'encrypt private keys to this key of a node'],
      ['edge-keys revoke NODE', 'encrypt nothing more to the key of a node'],
    ],
    ...database(),
  },
  secrets: {
    forms: [
      ['secrets list', 'show which keys encrypt certificate private keys, webhook secrets and signing keys'],
      ['secrets rotate', 'encrypt all of them with the first key of the file'],
    ],
    ...database('GATEHOUSE_SECRETS_KEY_FILE'),
  },
  'ip-restrictions release': {
    forms: [
      ['ip-restrictions release', 'make the enforced restrictions of a type only warn, to recover from a lockout'],
    ],
    flags: [
      ['--account NAME|ac_…', 'the account; required'],
      ['--type api|dashboard|agent|endpoints', 'what the restrictions protect; required'],
    ],
    ...database('GATEHOUSE_PUBLIC_URL'),
  },
  'rate-limits': {
    forms: [
      ['rate-limits list', 'list the accounts whose limit of requests was changed'],
      ['rate-limits set', 'change the limit of an account'],
      ['rate-limits clear', 'reset an account to the default'],
    ],
    flags: [account, ['--requests-per-minute N', 'with set: the limit']],
    ...database('GATEHOUSE_REQUESTS_PER_MINUTE'),
  },
  quotas: {
    forms: [
      ['quotas list', 'list the quotas that were changed for an account'],
      ['quotas set', 'change a quota of an account'],
      ['quotas clear', 'reset a quota of an account to the default'],
    ],
    flags: [
      account,
      ['--kind KIND', 'the kind of resource, such as ip_policies'],
      ['--limit N', 'with set: the quota'],
    ],
    ...database(),
  },
  domains: {
    forms: [
      ['domains list', 'list domains that were assigned'],
      ['domains assign ACCOUNT DOMAIN', 'assign a domain to an account without DNS verification'],
      ['domains unassign ACCOUNT DOMAIN', 'remove the assignment'],
    ],
    ...database(),
  },
  backup: {
    forms: [
      ['backup FILE', 'back up the database, settings and secrets into one encrypted file'],
      ['backup FOLDER', 'the same, into a new file in this folder'],
      ['backup verify FILE', 'restore a backup into a scratch database, compare, and drop it'],
    ],
    flags: [
      ['--keep N', 'with a folder: delete all but the newest N backups in it'],
      ['--identity FILE', "with verify: the private key, as 'age-keygen' made it; required"],
    ],
    ...database('GATEHOUSE_BACKUP_RECIPIENTS_FILE', 'GATEHOUSE_BACKUP_INCLUDE'),
  },
  restore: {
    forms: [['restore FILE', 'restore a backup into an empty database, so that edge nodes follow it']],
    flags: [
      ['--identity FILE', "the private key, as 'age-keygen' made it; required"],
      ['--replace', 'delete what is in the database if it is not empty'],
      ['--files-into FOLDER', 'write the settings and secrets of the backup into this folder'],
      ['--only-files', 'leave the database alone'],
    ],
    ...database('GATEHOUSE_DATABASE_APP_ROLE'),
  },
  'after-restore': {
    forms: [
      ['after-restore', 'run once after restoring the database from a backup, so that edge nodes accept new changes'],
    ],
    ...database(),
  },
  'terraform-provider': {
    forms: [
      ['terraform-provider install', "make 'terraform init' find the provider of this version on this machine"],
      ['terraform-provider install FOLDER', 'the same, in a filesystem mirror for Terraform'],
    ],
  },
  version: { forms: [['version', 'print the version']] },
  help: { forms: [['help COMMAND', 'show the help of a command']] },
}

/** First words that client commands use too. */
const shared = ['rollouts']
/** First words that identify a server command. */
export const serverCommands: readonly string[] = Object.keys(commands).filter(
  (name) => !name.includes(' ') && !shared.includes(name),
)

const described = (forms: Rows): string =>
  twoColumns(forms.map(([typed, does]) => [`gatehouse ${typed}`, does] as const))

export const serverForms = (): Rows => Object.values(commands).flatMap(({ forms }) => forms)

export const serverUsage =
  (): string => `Gatehouse ${version}: a control plane for API keys, IP restrictions and network edges.

Server commands:

${described(serverForms())}

${paragraph("'gatehouse help <command>', or <command> --help, shows more: its flags and the environment variables that it reads.", '  ')}
`

/** Undefined if the words do not name a server command. */
export function helpOfServerCommand([first = '', second]: readonly string[]): string | undefined {
  const command = commands[`${first} ${second}`] ?? commands[first]
  if (!command) return undefined
  const { forms, flags, settings: reads, readsAll } = command
  return [
    described(forms),
    ...(flags ? [`Flags:\n${twoColumns(flags)}`] : []),
    ...(reads ? [`Settings, from the environment:\n${settingsHelp(reads)}`] : []),
    ...(readsAll
      ? [
          paragraph("The other settings of 'gatehouse serve' are read too. 'gatehouse help serve' lists them."),
          paragraph(
            "Without GATEHOUSE_DATABASE_URL, on a machine that 'gatehouse setup' has set up, the settings are those of its service. Run the command as root.",
          ),
        ]
      : []),
  ].join('\n\n')
}

export function settingsHelp(known: Record<string, Setting<unknown>>): string {
  return Object.entries(known)
    .map(([name, { help, secret, default: fallback }]) => {
      const value = fallback === undefined ? 'required' : fallback === '' ? 'empty by default' : `default ${fallback}`
      return `  ${name}${secret ? ` (or ${name}_FILE)` : ''}\n${paragraph(`${help} (${value})`, '      ')}`
    })
    .join('\n')
}
