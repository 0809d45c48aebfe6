import { execFileSync, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from '../../../dev/ports.ts'
import type { Scope } from '../../harness/control_plane.ts'
import { poll } from '../../harness/poll.ts'
import type { Reader } from './node.ts'

type Program = {
  readonly name: string
  /** The Debian package, and how to see that it is there. */
  readonly package: string
  readonly isInstalled: () => boolean
  readonly files: (folder: string, port: number) => Record<string, string>
  readonly command: (folder: string, port: number) => string[]
}

const runs =
  (command: string, ...args: string[]) =>
  () => {
    try {
      execFileSync(command, args, { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
const python = '/usr/bin/python3'
const handler = `def handler(path):
    if path == '/admin' or path.startswith('/admin/'):
        return 'ADMIN'
    return 'EXACT' if path == '/exact' else 'open'
`
const site = {
  'site/admin/keys': 'ADMIN',
  'site/admin/index.html': 'ADMIN',
  'site/exact': 'EXACT',
  'site/index.html': 'open',
}

export const programs: readonly Program[] = [
  {
    name: 'python http.server',
    package: 'python3',
    isInstalled: () => existsSync(python),
    files: () => ({
      'app.py': `${handler}
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit
class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        body = handler(unquote(urlsplit(self.path).path)).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
`,
    }),
    command: (folder, port) => [python, join(folder, 'app.py'), `${port}`],
  },
  {
    name: 'flask',
    package: 'python3-flask',
    isInstalled: runs(python, '-c', 'import flask'),
    files: () => ({
      'app.py': `import sys
from flask import Flask
app = Flask(__name__)
app.add_url_rule('/admin/', 'admin', lambda: 'ADMIN')
app.add_url_rule('/admin/<path:rest>', 'below', lambda rest: 'ADMIN')
app.add_url_rule('/exact', 'exact', lambda: 'EXACT')
app.register_error_handler(404, lambda error: ('open', 200))
app.run('127.0.0.1', int(sys.argv[1]), threaded=True)
`,
    }),
    command: (folder, port) => [python, join(folder, 'app.py'), `${port}`],
  },
  {
    name: 'php',
    package: 'php-cli',
    isInstalled: runs('php', '-v'),
    files: () => ({
      // A front controller as frameworks have it: by PATH_INFO where the server has found one, or else by the URL.
      'site/index.php': `<?php
$path = $_SERVER['PATH_INFO'] ?? parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$path = rawurldecode((string) $path);
if ($path === '/admin' || str_starts_with($path, '/admin/')) echo 'ADMIN';
else echo $path === '/exact' ? 'EXACT' : 'open';
`,
    }),
    command: (folder, port) => ['php', '-q', '-S', `127.0.0.1:${port}`, '-t', join(folder, 'site')],
  },
  {
    name: 'nginx',
    package: 'nginx-light',
    isInstalled: runs('nginx', '-v'),
    files: (folder, port) => ({
      'nginx.conf': `daemon off;
pid ${folder}/pid;
error_log ${folder}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
  server {
    listen 127.0.0.1:${port};
    location /admin { return 200 ADMIN; }
    location = /exact { return 200 EXACT; }
    location / { return 200 open; }
  }
}
`,
    }),
    command: (folder) => ['nginx', '-c', join(folder, 'nginx.conf')],
  },
  {
    name: 'apache',
    package: 'apache2-bin',
    isInstalled: runs('apache2', '-v'),
    files: (folder, port) => ({
      'apache.conf': `ServerName localhost
ServerRoot ${folder}
PidFile ${folder}/pid
ErrorLog ${folder}/error.log
Listen 127.0.0.1:${port}
${['mpm_event', 'authz_core', 'dir'].map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`).join('\n')}
DocumentRoot ${folder}/site
DirectoryIndex index.html
ErrorDocument 404 open
AllowEncodedSlashes On
`,
      ...site,
    }),
    command: (folder) => ['apache2', '-D', 'FOREGROUND', '-f', join(folder, 'apache.conf')],
  },
]

export async function startProgram(scope: Scope, { name, files, command }: Program): Promise<Reader> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-reader-'))
  const [port = 0] = await freePorts(1)
  for (const [path, text] of Object.entries(files(folder, port))) {
    const file = join(folder, path)
    await mkdir(join(file, '..'), { recursive: true })
    await writeFile(file, text)
  }
  // Servers that were started by root give up their rights.
  execFileSync('chmod', ['-R', 'a+rX', folder])
  const [file = '', ...args] = command(folder, port)
  const child = spawn(file, args, { stdio: process.env.READER_LOG ? 'inherit' : 'ignore', detached: true })
  scope.after(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await rm(folder, { recursive: true, force: true })
  })
  await poll(() => accepts(port))
  return { name, port }
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
