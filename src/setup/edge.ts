import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { credentialsFile, JoinLater, joinNode } from '../commands/edge_node/join.ts'
import { newInvitation } from '../commands/operator/nodes.ts'
import type { Config } from '../config/config.ts'
import { edgeSettingsStep, type Folders, localNatsUrl } from './files.ts'
import type { Step } from './step.ts'

const name = 'edge-1'
const tokenLifeSeconds = 600
/** The control plane has just started, and may not have given NATS its account yet. */
const patienceMs = 60_000

/** Makes this machine an edge node of its own control plane, as `gatehouse-edge join` does on another. */
export const edgeSteps = (at: Folders, config: () => Config): Step[] => [
  edgeSettingsStep(at),
  {
    what: `edge node ${name} has joined: ${at.edge}/joined.env, ${credentialsFile(at.edgeState)}`,
    isDone: () => existsSync(credentialsFile(at.edgeState)) || existsSync(join(at.edge, 'nats-password')),
    run: async () => {
      const token = await newInvitation(config(), name, tokenLifeSeconds)
      const { host, port } = config().GATEHOUSE_LISTEN
      const address = `http://${/^(0\.0\.0\.0|::)$/.test(host) ? 'localhost' : host}:${port}`
      const order = { address, token, name, folder: at.edgeState, settings: join(at.edge, 'joined.env') }
      const deadline = Date.now() + patienceMs
      const attempt = async (): Promise<unknown> =>
        joinNode({ ...order, natsServers: [localNatsUrl] }).catch(async (error) => {
          if (!(error instanceof JoinLater) || Date.now() > deadline) throw error
          await setTimeout(500)
          return attempt()
        })
      await attempt()
    },
  },
]
