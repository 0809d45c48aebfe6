// Implements HashiCorp's go-plugin: Terraform starts the provider and calls it over gRPC, with certificates made for
// this run.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server, ServerCredentials, type UntypedServiceImplementation } from '@grpc/grpc-js'
import { loadSync, type ServiceDefinition } from '@grpc/proto-loader'
import { packageFiles } from '../kernel/package_files.ts'
import { ownCertificate } from './certificate.ts'

const [goPluginVersion, protocolVersion] = [1, 6]

/** Policies of 100,000 rules exceed gRPC's default limit. */
const withoutSizeLimit = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 }

export const services = (): { provider: ServiceDefinition; controller: ServiceDefinition } => {
  const loaded = loadSync([...packageFiles.terraformProtocol], { keepCase: true, longs: Number, defaults: true })
  return {
    provider: loaded['tfplugin6.Provider'] as ServiceDefinition,
    controller: loaded['plugin.GRPCController'] as ServiceDefinition,
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the .proto has the types of messages; the compiler does not read it.
export type Handler = (request: any) => Promise<object>

const toImplementation = (handlers: Readonly<Record<string, Handler>>): UntypedServiceImplementation =>
  Object.fromEntries(
    Object.entries(handlers).map(([name, handle]) => [
      name,
      (call: { request: unknown }, callback: (error: Error | null, response?: object) => void) =>
        handle(call.request).then((response) => callback(null, response), callback),
    ]),
  )

/** Serves until Terraform ends it. Accepts only clients with Terraform's certificate. */
export async function servePlugin(
  clientCertificate: string,
  handlers: Readonly<Record<string, Handler>>,
): Promise<number> {
  // Ctrl-C signals every process of the terminal. Terraform decides how to react and calls StopProvider.
  process.on('SIGINT', () => {})
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const { certificate, certificatePem, keyPem } = ownCertificate(Date.now())
  const server = new Server(withoutSizeLimit)
  const ended = Promise.withResolvers<number>()
  const { provider, controller } = services()
  server.addService(provider, toImplementation(handlers))
  server.addService(controller, {
    Shutdown: (_: unknown, callback: (error: null, response: object) => void) => {
      callback(null, {})
      server.tryShutdown(() => ended.resolve(0))
    },
  })
  const address = join(folder, 'plugin')
  const credentials = ServerCredentials.createSsl(
    Buffer.from(clientCertificate),
    [{ private_key: Buffer.from(keyPem), cert_chain: Buffer.from(certificatePem) }],
    true,
  )
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${address}`, credentials, (error) => (error ? reject(error) : resolve())),
  )
  const encoded = certificate.toString('base64').replaceAll('=', '')
  process.stdout.write(`${goPluginVersion}|${protocolVersion}|unix|${address}|grpc|${encoded}\n`)
  endWithParent()
  // Exits explicitly: open connections would keep the process alive while Terraform waits for it.
  process.exit(await ended.promise)
}

/** A killed Terraform never calls Shutdown, so the provider exits when its parent is gone. */
function endWithParent(): void {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.exit(1)
  }, 5_000).unref()
}
