import { mkdir } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { diagnose, type Environment, type SetUp, write } from './setup.ts'

/** What systemd says of a unit. Values as 'systemctl show' of systemd 252 prints them. */
export type Unit = { show: Record<string, string | string[]>; text: string }
export type Units = Record<string, Unit>

const stopped = {
  LoadState: 'loaded',
  ActiveState: 'inactive',
  SubState: 'dead',
  Result: 'success',
  ExecMainStatus: '0',
  UnitFileState: 'enabled',
}
const started = (program: string) =>
  `{ path=${program.split(' ')[0]} ; argv[]=${program} ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }`

/** The four services of one machine as 'gatehouse setup' leaves them, stopped: settings in files, secrets as credentials. */
export async function stoppedUnits({ folder, databaseUrl, controlPlane, edge }: SetUp): Promise<Units> {
  const home = join(folder, 'units')
  await mkdir(join(home, 'nats'), { recursive: true })
  const file = (name: string, text: string) => write(join(home, name), text)
  const { GATEHOUSE_DATABASE_URL = '', GATEHOUSE_SECRETS_KEY_FILE = '', ...ofPlane } = controlPlane
  const lines = (env: Environment) => Object.entries(env).map(([name, value]) => `${name}=${value}\n`)
  const secretsKey = 'GATEHOUSE_SECRETS_KEY_FILE=/run/credentials/gatehouse.service/secrets-key\n'
  const planeSettings = await file('setup.env', [secretsKey, ...lines(ofPlane)].join(''))
  const edgeSettings = await file('edge.env', lines(edge).join(''))
  const url = await file('database-url', `${GATEHOUSE_DATABASE_URL}\n`)
  const ownerUrl = await file('database-owner-url', `${databaseUrl}\n`)
  const natsConfig = await file('nats.conf', `jetstream {\n  store_dir: "${join(home, 'nats')}"\n}\n`)
  const optional = (...files: string[]) => files.map((each) => `${each} (ignore_errors=yes)`)
  return {
    'gatehouse.service': {
      show: {
        ...stopped,
        Environment: 'NODE_ENV=production GATEHOUSE_DATABASE_URL_FILE=/run/credentials/gatehouse.service/database-url',
        EnvironmentFiles: optional(planeSettings, join(home, 'not-there.env')),
        LimitNOFILE: '524288',
        DynamicUser: 'yes',
        ExecStart: started('/usr/bin/gatehouse serve'),
      },
      text: `[Service]\nLoadCredential=database-url:${url}\nLoadCredential=secrets-key:${GATEHOUSE_SECRETS_KEY_FILE}\n`,
    },
    'gatehouse-migrate.service': {
      show: {
        ...stopped,
        UnitFileState: 'static',
        Environment:
          'NODE_ENV=production GATEHOUSE_DATABASE_URL_FILE=/run/credentials/gatehouse-migrate.service/database-owner-url GATEHOUSE_DATABASE_APP_ROLE=gatehouse_app',
        EnvironmentFiles: optional(planeSettings),
        DynamicUser: 'yes',
        ExecStart: started('/usr/bin/gatehouse migrate'),
      },
      text: `[Service]\nLoadCredential=database-owner-url:${ownerUrl}\n`,
    },
    'gatehouse-edge.service': {
      show: {
        ...stopped,
        Environment: 'NODE_ENV=production',
        EnvironmentFiles: optional(edgeSettings),
        LimitNOFILE: '262144',
        DynamicUser: 'no',
        ExecStart: started('/usr/bin/gatehouse-edge'),
      },
      text: '[Service]\n',
    },
    'gatehouse-nats.service': {
      show: { ...stopped, DynamicUser: 'no', ExecStart: started(`nats-server -c ${natsConfig}`) },
      text: '[Service]\n',
    },
  }
}

/** A program in place of systemctl: there is no systemd in a test. 'npm run drill -- install' runs doctor with a real one. */
export async function systemctlFor(folder: string, units: Units): Promise<Environment> {
  const programs = join(folder, 'systemctl')
  await mkdir(programs, { recursive: true })
  for (const [unit, { show, text }] of Object.entries(units)) {
    const lines = Object.entries(show).flatMap(([name, value]) => [value].flat().map((each) => `${name}=${each}\n`))
    await write(join(programs, `${unit}.show`), lines.join(''))
    await write(join(programs, `${unit}.cat`), text)
  }
  const listed = Object.keys(units).map((unit) => `${unit} enabled enabled\n`)
  await write(join(programs, 'list'), listed.join(''))
  await write(
    join(programs, 'systemctl'),
    `#!/bin/sh
cd "${programs}"
case "$1" in
  list-unit-files) cat list ;;
  show) cat "$2.show" 2>/dev/null || echo LoadState=not-found ;;
  cat) cat "$2.cat" ;;
esac
`,
    0o755,
  )
  return { PATH: [programs, process.env.PATH].join(delimiter) }
}

/** Doctor without any settings, on a machine with these units. */
export const diagnoseUnits = async (folder: string, units: Units, ...flags: string[]) =>
  diagnose(await systemctlFor(folder, units), ...flags)
