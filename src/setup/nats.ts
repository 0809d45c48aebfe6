import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withDatabase } from '../commands/database.ts'
import { accountsFolder, createNatsOperator, natsOperatorConf } from '../commands/operator/nats.ts'
import type { Config } from '../config/config.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { holds } from './configs.ts'
import { type Folders, forEveryone, writeOnce } from './files.ts'
import type { Step } from './step.ts'

/** Set up by an earlier version and not converted to operator mode since: docs/operate/upgrade-from-passwords.md. */
export const hasPasswords = ({ nats }: Folders): boolean =>
  existsSync(join(nats, 'nats.env')) && !existsSync(join(nats, 'operator.conf'))

export const rootKeyFile = ({ controlPlane }: Folders): string => join(controlPlane, 'nats-root.key')

/** NATS in operator mode: it learns of nodes at run time, so none of these files changes with the nodes. */
export const operatorSteps = (at: Folders, config: () => Config): Step[] => [
  {
    what: `keys that sign for NATS, in the database; their root key is in ${rootKeyFile(at)}`,
    isDone: () => holds(config, async (db) => (await natsOperatorConf(db, config(), accountsFolder)) !== undefined),
    run: () =>
      withDatabase(config(), async (db) => {
        // Fails if existing keys cannot be read.
        await natsOperatorConf(db, config(), accountsFolder)
        await createNatsOperator(db, config(), rootKeyFile(at))
      }),
  },
  operatorConfStep(join(at.nats, 'operator.conf'), config),
  natsConfStep(at),
]

const operatorConfStep = (file: string, config: () => Config): Step => ({
  what: `${file}: the operator that NATS trusts`,
  isDone: async () => {
    if (!existsSync(file)) return false
    const found = operatorLine(readFileSync(file, 'utf8'))
    const isOther = await holds(config, async (db) => {
      const ours = await natsOperatorConf(db, config(), accountsFolder)
      return ours !== undefined && operatorLine(ours) !== found
    })
    if (isOther) throw new ConfigError(`${file} is of another installation. Move it elsewhere, and run setup again`)
    return true
  },
  run: () =>
    withDatabase(config(), async (db) => {
      const conf = await natsOperatorConf(db, config(), accountsFolder)
      if (!conf) throw new Error('the database has no keys that sign for NATS')
      writeOnce(file, conf, forEveryone)
    }),
})

const operatorLine = (conf: string): string | undefined => /^operator: .*$/m.exec(conf)?.[0]

const include = 'include "operator.conf"'
/** From earlier packages, on a machine that was never set up. */
const formerInclude = 'include "authorization.conf"'

function natsConfStep(at: Folders): Step {
  const file = join(at.nats, 'nats.conf')
  const text = () => readFileSync(file, 'utf8')
  return {
    what: `${file}: configuration of NATS`,
    isDone: () => existsSync(file) && text().includes(include),
    run: () => {
      if (!existsSync(file)) return writeOnce(file, natsConf(at), forEveryone)
      if (!text().includes(formerInclude))
        throw new ConfigError(`${file} is not of this program. Add this line to it, and run setup again: ${include}`)
      writeFileSync(file, text().replace(formerInclude, include), { flush: true })
    },
  }
}

export const closedListen = 'listen: "127.0.0.1:4222"'
export const openListen = 'listen: "0.0.0.0:4222"'

/** Closed to other machines until this one has a name for them: `gatehouse setup --public-url`. */
const natsConf = ({ nats }: Folders): string => `\
# NATS for Gatehouse: it carries signed copies of what edges must know. PostgreSQL can rebuild all of it.
# Made by gatehouse setup, and yours to change. For three servers, see docs/operate/nats.md.
server_name: gatehouse-nats-1
${closedListen}

tls {
  cert_file: "${nats}/server.pem"
  key_file: "${nats}/server.key"
}

jetstream {
  store_dir: "/var/lib/gatehouse-nats"
}

${include}
`
