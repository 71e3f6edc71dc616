import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import type http from 'node:http';
import { join } from 'node:path';

/** Isolates git from the settings of the user and the system. */
export const gitEnvironment = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
};

/** Makes bare repositories `NAME.git` below `folder`, each with one commit that holds `file`, open to pushes. */
export function makeRepositories(folder: string, names: readonly string[]): void {
  const env = { ...process.env, ...gitEnvironment };
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, env, stdio: 'pipe' });
  mkdirSync(folder, { recursive: true });
  git('init', '--quiet', '--initial-branch=main', 'first');
  writeFileSync(join(folder, 'first', 'file'), 'content of the first commit');
  git('-C', 'first', 'add', 'file');
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.test'];
  git('-C', 'first', ...author, 'commit', '--quiet', '--message', 'first');
  for (const name of names) {
    git('clone', '--quiet', '--bare', 'first', `${name}.git`);
    git('-C', `${name}.git`, 'config', 'http.receivepack', 'true');
  }
}

/** Serves the repositories below `folder` under `/git/`: git's own server, by CGI (RFC 3875). */
export function gitBackend(folder: string) {
  return (request: http.IncomingMessage, response: http.ServerResponse): boolean => {
    const { method = '', url = '', headers } = request;
    if (!url.startsWith('/git/')) return false;
    const [path, query = ''] = url.slice('/git'.length).split('?');
    const cgi = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH,
        ...gitEnvironment,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: method,
        CONTENT_TYPE: headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: String(headers['content-encoding'] ?? ''),
        GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
        ...(headers['content-length'] !== undefined && { CONTENT_LENGTH: headers['content-length'] }),
      },
    });
    request.pipe(cgi.stdin);
    cgi.stdin.on('error', () => {});
    relayAnswer(cgi, response);
    return true;
  };
}

function relayAnswer(cgi: ChildProcess, response: http.ServerResponse): void {
  let head = Buffer.alloc(0);
  cgi.stdout?.on('data', (chunk: Buffer) => {
    if (response.headersSent) {
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const [name, value] = [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()];
      if (name === 'Status') response.statusCode = Number(value.slice(0, 3));
      else response.setHeader(name, value);
    }
    response.write(head.subarray(end + 4));
  });
  cgi.stdout?.on('end', () => response.end());
}
