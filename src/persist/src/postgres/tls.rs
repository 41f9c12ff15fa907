//! TLS to a PostgreSQL, if its URL asks for it.
//!
//! `sslmode=require`, `verify-ca` and `verify-full` all mean TLS with a certificate that is checked, name and all: who asks for
//! TLS wants to know whom it talks to. `sslrootcert=FILE` says whom to trust, and otherwise the system does. Without any of
//! these there is no TLS.

use std::path::PathBuf;

use tokio_postgres_rustls::MakeRustlsConnect;

/// Takes out of a URL what is said of TLS: returns the rest, as the client library knows it, and how to do it.
pub(crate) fn split(url: &str) -> Result<(String, Option<MakeRustlsConnect>), String> {
    let Some((place, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let (mut kept, mut is_wanted, mut trusted) = (Vec::new(), false, None);
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", "require" | "verify-ca" | "verify-full")) => is_wanted = true,
            // Plain text is what there is unless TLS is asked for.
            Some(("sslmode", "disable" | "prefer")) => {}
            Some(("sslmode", mode)) => return Err(format!("its sslmode {mode} is unknown")),
            Some(("sslrootcert", path)) => trusted = Some(PathBuf::from(path)),
            _ => kept.push(parameter),
        }
    }
    kept.push(if is_wanted { "sslmode=require" } else { "sslmode=disable" });
    let rest = format!("{place}?{}", kept.join("&"));
    if !is_wanted {
        return if trusted.is_some() {
            Err("it has an sslrootcert and no sslmode=verify-full".to_owned())
        } else {
            Ok((rest, None))
        };
    }
    let trusted = trusted.or_else(crate::tls::system_certificates);
    let trusted = trusted.ok_or("no certificates were found: give sslrootcert, or set SSL_CERT_FILE")?;
    let config = crate::tls::config(&trusted).map_err(|error| error.to_string())?;
    Ok((rest, Some(MakeRustlsConnect::new(config))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::Pool;
    use glimpse_test::postgres_server::Postgres;
    use std::time::Duration;

    #[test]
    fn what_a_url_says_of_tls() {
        let rest = |url: &str| split(url).map(|(rest, tls)| (rest, tls.is_some()));
        assert_eq!(rest("postgres://h/d"), Ok(("postgres://h/d".to_owned(), false)));
        let (url, expected) = ("postgres://h/d?sslmode=prefer&a=b", "postgres://h/d?a=b&sslmode=disable");
        assert_eq!(rest(url), Ok((expected.to_owned(), false)));
        assert!(rest("postgres://h/d?sslmode=sometimes").is_err_and(|error| error.contains("sometimes")));
        assert!(rest("postgres://h/d?sslrootcert=/ca").is_err_and(|error| error.contains("no sslmode")));
        assert!(
            rest("postgres://h/d?sslmode=verify-full&sslrootcert=/nowhere")
                .is_err_and(|error| error.contains("/nowhere"))
        );
    }

    #[tokio::test]
    async fn whom_we_talk_to_is_checked() {
        let server = Postgres::start_secured().expect("a PostgreSQL starts");
        let asked = async |url: &str| {
            let pool = Pool::new(url, 1, Duration::from_secs(10)).expect("usable");
            let rows = pool.query("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await;
            rows.map(|rows| rows[0].get::<_, String>(0)).map_err(|error| crate::pauses::in_full(&error))
        };
        let plain = server.url();
        let named = plain.replace("127.0.0.1", "localhost");
        let ca = server.authority();
        assert_eq!(asked(&plain).await.as_deref(), Ok("false"));
        assert_eq!(asked(&format!("{named}?sslmode=verify-full&sslrootcert={ca}")).await.as_deref(), Ok("true"));
        // Another name than its certificate's, and a certificate of a stranger.
        let wrong_name = asked(&format!("{plain}?sslmode=require&sslrootcert={ca}")).await;
        assert!(wrong_name.as_ref().is_err_and(|error| error.contains("certificate")), "{wrong_name:?}");
        let stranger = asked(&format!("{named}?sslmode=require&sslrootcert=/etc/ssl/certs/ca-certificates.crt")).await;
        assert!(stranger.as_ref().is_err_and(|error| error.contains("certificate")), "{stranger:?}");
    }
}
