import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { credentialsFile, joinPatiently } from '../commands/edge_node/join.ts'
import { newInvitation } from '../commands/operator/nodes.ts'
import { readyUrl } from '../commands/start_unit.ts'
import type { Config } from '../config/config.ts'
import { edgeSettingsStep, type Folders, localNatsUrl } from './files.ts'
import type { Step } from './step.ts'

const name = 'edge-1'
const tokenLifeSeconds = 600

/** Makes this machine an edge node of its own control plane, like `gatehouse-edge join` on another machine. */
export const edgeSteps = (at: Folders, config: () => Config): Step[] =>
  // A node that has a password keeps it: docs/operate/upgrade-from-passwords.md.
  existsSync(join(at.edge, 'nats-password')) ? [] : [edgeSettingsStep(at), joinStep(at, config)]

const joinStep = (at: Folders, config: () => Config): Step => ({
  what: `edge node ${name} has joined: ${at.edge}/joined.env, ${credentialsFile(at.edgeState)}`,
  isDone: () => existsSync(credentialsFile(at.edgeState)),
  run: async () => {
    const token = await newInvitation(config(), name, tokenLifeSeconds)
    const { host, port } = config().GATEHOUSE_LISTEN
    const own = /^(0\.0\.0\.0|::)$/.test(host) ? 'localhost' : host
    const address = new URL(readyUrl({ host: own, port })).origin
    const order = { address, token, name, folder: at.edgeState, settings: join(at.edge, 'joined.env') }
    await joinPatiently({ ...order, allowHttp: true, natsServers: [localNatsUrl] })
  },
})
