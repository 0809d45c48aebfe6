import { join } from 'node:path'
import type { ProxySettings } from '../../src/agent/haproxy/settings.ts'

/** A node with one thread, whose processor time is that of its only worker. Its operator's certificates are in its folder. */
export const proxySettings = (folder: string, httpsPort: number, tcpPorts: [number, number]): ProxySettings => ({
  folder,
  tcpBind: { addresses: ['127.0.0.1'], first: tcpPorts[0], last: tcpPorts[1] },
  httpsBind: [`127.0.0.1:${httpsPort}`],
  certificateFolder: join(folder, 'operator'),
  runtimeSocket: join(folder, 'runtime.sock'),
  masterSocket: join(folder, 'master.sock'),
  threads: 1,
  caFile: '/etc/ssl/certs/ca-certificates.crt',
  maxconn: 20_000,
})
