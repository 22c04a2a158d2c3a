export const CANARY = "s3cr3tcanary";
/** Too long to be a host name: it does not resolve, and no DNS server is asked. */
const HOST = "h".repeat(64);

/** Addresses, most of them malformed, with a password where people put one. */
export function addressesWith(password: string): string[] {
  const hex = password.replaceAll(/./g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
  const schemes = [
    "postgres",
    "postgresql",
    "POSTGRES",
    "http",
    "https",
    "ws",
    "HTTP",
    "redis",
    "jdbc:postgresql",
  ];
  const rests = [
    ...[
      `u:${password}@${HOST}/db`,
      `u:${password}@${HOST}:1/db`,
      `:${password}@${HOST}`,
      `${password}@${HOST}`,
    ],
    ...[`u:a@${password}@${HOST}/db`, `u:a/${password}@${HOST}/db`, `u:a#${password}@${HOST}/db`],
    ...[
      `u:a?${password}@${HOST}/db`,
      `127.0.0.1:1/${password}@${HOST}/db`,
      `127.0.0.1:1#${password}@${HOST}`,
    ],
    ...[`u:${password}a%zz@${HOST}/db`, `u:${password}@`, `u:${password}@${HOST}:x/db`, `u:${password}`],
    ...[
      `u:${password}/db`,
      `u:${password}@[::1/db`,
      `u:${password}@h 1/db`,
      `u:${password}@${HOST},${HOST}/db`,
    ],
    ...[`u:a@${HOST}/db?password=${password}`, `${HOST}/db?user=u&password=a@${password}`],
    ...[`${HOST}/db?sslpassword=${password}`, `${HOST}/db?PASSWORD=${password}&sslmode=disable`],
    ...[`${HOST}/db?p%61ssword=${password}`, `${HOST}/db?sslmode=disable;password=${password}`],
    ...[`${HOST}/db?token=${password}#x`, `${HOST}/db#${password}`, `u:${password}\\@${HOST}/db`],
  ];
  const urls = schemes.flatMap((scheme) => rests.map((rest) => `${scheme}://${rest}`));
  return [
    ...urls,
    ...rests
      .slice(0, 3)
      .flatMap((rest) => [` postgres://${rest}`, `\tpostgres://${rest}\n`, ` http://${rest} `]),
    ...rests
      .slice(0, 3)
      .flatMap((rest) => [`postgres:${rest}`, `postgres:/${rest}`, `http:${rest}`, `//${rest}`]),
    ...[`u:${password}@${HOST}`, `u:${password}@${HOST}:5432/db`, ` u:${password}@${HOST}/db`],
    ...[`file://u:${password}@${HOST}/x.db`, `file:///no/such/x.db?password=${password}`, `file:${password}`],
    ...[
      `host=${HOST} user=u password=${password}`,
      `Server=${HOST};Password=${password}`,
      `password = '${password}'`,
    ],
    ...[encodeURIComponent(`postgres://u:${password}@${HOST}/db`), `post\ngres://u:${password}@${HOST}/db`],
    ...[`postgres://u:${hex}@${HOST}/db`, `postgres://u:${password}@${HOST}/db\0`],
  ];
}
