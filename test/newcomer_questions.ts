/**
 * What people ask who see Gatehouse for the first time, in the words they type into a search field, and the pages that answer
 * it. Written before the search was tuned: if one fails, improve the page, its title or its keywords, not the question.
 */
export const newcomerQuestions: readonly [typed: string, answeredBy: readonly string[]][] = [
  ['how does it work', ['explain/how-it-works.html']],
  ['compare with traefik', ['start/compare.html']],
  ['try it locally', ['start/quickstart.html']],
  ['install on debian', ['guides/install-debian.html']],
  ['docker compose', ['guides/install-docker.html']],
  ['run on kubernetes', ['guides/install-kubernetes.html']],
  ['which versions of postgresql are supported', ['reference/compatibility.html']],
  ['what ports do i open in the firewall', ['reference/ports.html']],
  ['nginx reverse proxy https', ['guides/put-tls-in-front.html']],
  ["let's encrypt certificate", ['guides/certificates.html']],
  ['block an ip address', ['guides/recipes.html', 'guides/ip-policies.html']],
  ['allow only our office', ['guides/recipes.html', 'guides/ip-policies.html']],
  ['test a rule before enforcing it', ['guides/introduce-a-restriction.html', 'guides/import-and-prune-rules.html']],
  ['why was my request refused', ['guides/why-was-it-refused.html']],
  ['i locked myself out', ['operate/troubleshooting.html', 'guides/introduce-a-restriction.html', 'start/faq.html']],
  ['create an api key', ['guides/api-keys.html']],
  ['rotate a token', ['guides/api-keys.html', 'operate/rotate-secrets.html']],
  ['login with google or okta', ['guides/sign-in.html']],
  ['terraform gitops', ['guides/state-files-in-ci.html', 'start/faq.html']],
  ['backup', ['operate/backup-and-restore.html']],
  ['what happens when the database is down', ['explain/when-a-part-is-down.html', 'operate/troubleshooting.html']],
  ['maximum number of rules', ['reference/limits-and-retention.html']],
  ['prometheus alerts', ['operate/monitoring.html']],
  ['ERR_SELF_LOCKOUT', ['reference/errors.html']],
  ['how much memory does a node need', ['operate/capacity.html']],
]
