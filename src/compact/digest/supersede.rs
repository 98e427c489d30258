//! Which statement replaces which.
//!
//! A later statement about the same subject with another value replaces the earlier one. The same subject: most of what the earlier is
//! about, weighed by rarity, stands in the later too. Two statements that differ in an entity as well (staging and production, customer A
//! and B) speak of two things. Words that announce a change only lower the bar.

mod relation;
mod weighed;

use std::collections::{HashMap, HashSet};

use super::corrections::corrections;
use super::stale::Stale;
use super::statements::{Speaker, Statement};
use super::subjects::{Key, Rarity};
use super::values::Value;
use relation::{Relation, contrasts, relation};
use weighed::Weighed;

/// What became of each statement, and the values nobody holds any more.
pub(crate) struct Resolved {
    /// By index: the statement that took its place.
    pub replaced_by: Vec<Option<usize>>,
    /// Statements that stand but for a number, each with the one that says the new number.
    pub corrected: Vec<(usize, usize)>,
    /// Of the assistant: what it says contradicts the user, who let it stand.
    pub contradicts: HashSet<usize>,
    pub stale: Stale,
}

/// Keys looked up for a statement, statements looked at for each, and compared in full. They bound the work for a statement.
const KEYS: usize = 8;
const POSTINGS: usize = 32;
const COMPARED: usize = 16;

pub(crate) fn resolve(statements: &[Statement], rarity: &Rarity) -> Resolved {
    let mut replaced_by: Vec<Option<usize>> = vec![None; statements.len()];
    let mut outdated: Vec<(usize, usize)> = Vec::new();
    let mut postings: HashMap<Key, Vec<usize>> = HashMap::new();
    let weighed: Vec<Weighed> = statements.iter().map(|s| Weighed::of(&s.subject, rarity)).collect();
    let mut met: Vec<usize> = Vec::new();
    let mut contradicts = HashSet::new();
    for (later, statement) in statements.iter().enumerate() {
        let keys = weighed[later].keys();
        met.clear();
        for key in keys.iter().take(KEYS) {
            met.extend(postings.get(key).into_iter().flatten().rev().take(POSTINGS).filter(|earlier| replaced_by[**earlier].is_none()));
        }
        let mut quantities: Vec<(f32, usize)> = Vec::new();
        for earlier in most_met(&mut met) {
            if !may_replace(&statements[earlier], statement) {
                if contradictory(&weighed[earlier], &weighed[later]) {
                    contradicts.insert(later);
                }
                continue;
            }
            match relation(&statements[earlier], statement, &weighed[earlier], &weighed[later]) {
                Some(Relation::Same) => replaced_by[earlier] = Some(later),
                Some(Relation::Contained) => {
                    replaced_by[later] = Some(earlier);
                    break;
                }
                Some(Relation::Replaces) => {
                    replaced_by[earlier] = Some(later);
                    outdated.push((earlier, later));
                }
                Some(Relation::Quantity(likeness)) => quantities.push((likeness, earlier)),
                None => {}
            }
        }
        if let [(_, earlier)] = quantities[..]
            && replaced_by[later].is_none()
        {
            replaced_by[earlier] = Some(later);
            outdated.push((earlier, later));
        }
        for key in keys {
            postings.entry(key).or_default().push(later);
        }
    }
    let mut corrected = corrections(statements);
    for at in 0..corrected.len() {
        let (earlier, later) = corrected[at];
        let again = corrected[at + 1..].iter().find(|next| next.0 == earlier).map(|next| next.1);
        // What replaces the statement, or corrects it again, replaces the correction.
        if let Some(newest) = again.or(replaced_by[earlier]).filter(|newest| *newest > later) {
            replaced_by[later].get_or_insert(newest);
            outdated.push((later, newest));
        }
    }
    let stale = Stale::of(statements, &replaced_by, &outdated, &corrected);
    corrected.retain(|(earlier, later)| replaced_by[*earlier].is_none() && replaced_by[*later].is_none());
    Resolved { replaced_by, corrected, contradicts, stale }
}

/// Whether the later names another value for something of the earlier.
fn contradictory(earlier: &Weighed, later: &Weighed) -> bool {
    const ALIKE: f32 = 0.3;
    let others = |old: &Value| later.subject.values.iter().any(|new| new.norm != old.norm && old.comparable(new) >= 0.9);
    let other = earlier.subject.values.iter().filter(|old| !later.subject.has_value(old.norm)).any(others);
    other && earlier.common(later) >= ALIKE * earlier.total && !contrasts(earlier.subject, later.subject)
}

/// The statements met most often, the newest first among equals.
fn most_met(met: &mut [usize]) -> Vec<usize> {
    met.sort_unstable();
    let mut times: Vec<(usize, usize)> = met.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.into_iter().take(COMPARED).map(|(_, at)| at).collect()
}

/// Nobody but the user takes the user's words back.
fn may_replace(earlier: &Statement, later: &Statement) -> bool {
    later.speaker == Speaker::User || earlier.speaker == Speaker::Assistant
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::super::statements::Statement;
    use super::*;

    fn fates(said: &[&str]) -> Vec<Option<usize>> {
        let filler = [
            "We looked at the import path and the docs.",
            "The parser reads every row of a table.",
            "Logs are written to standard output.",
            "The build takes a while on this box.",
            "Colours come from the theme file.",
            "A user may have several roles.",
        ];
        let mut statements: Vec<Statement> =
            filler.iter().chain(said).enumerate().map(|(place, text)| Statement::said(place, Speaker::User, *text)).collect();
        names::share(&mut statements);
        let rarity = Rarity::of(statements.iter().map(|s| &s.subject));
        let resolved = resolve(&statements, &rarity);
        resolved.replaced_by[filler.len()..].iter().map(|by| by.map(|at| at - filler.len())).collect()
    }

    #[test]
    fn an_update_replaces_what_it_supersedes() {
        let mut wrong = Vec::new();
        let mut check = |old: &str, new: &str| {
            if fates(&[old, new]) != [Some(1), None] {
                wrong.push(format!("{old} -> {new}"))
            }
        };
        check("The staging port is 8081.", "The staging port is 9090.");
        check("It should listen on port 8081.", "Correction: the port must be 9090, not 8081; operations gave me the wrong number.");
        check("Keep batches at most 500 rows.", "Let's cap the batch size to 250 rows.");
        check("API responses must stay under 200 ms.", "Relax the API latency: responses may take 350 ms now.");
        check("Retry the payment call at most 3 times.", "Actually, make that 5 retries for the payment call.");
        check("Opening day is the 3rd of May.", "The mayor can't make it, so opening day is the 17th of May.");
        check("Use tabs for indentation.", "Use spaces for indentation instead.");
        check("Die Obergrenze für Anfragen liegt bei 100 pro Minute.", "Die Obergrenze für Anfragen liegt jetzt bei 250 pro Minute.");
        check("Le budget du projet est de 4000 euros.", "Finalement, le budget du projet passe à 5500 euros.");
        check("El límite de memoria es de 512 MB.", "Sube el límite de memoria a 768 MB.");
        check("单批最多处理500行。", "单批上限改为800行。");
        check("タイムアウトは30秒にしてください。", "タイムアウトを45秒に変更してください。");
        check("타임아웃은 30초로 해 주세요.", "타임아웃을 45초로 변경해 주세요.");
        check("Максимальный размер файла — 10 МБ.", "Теперь максимальный размер файла — 25 МБ.");
        check("O prazo do relatório é 12 de maio.", "O prazo do relatório mudou para 19 de maio.");
        check("Never push to main.", "You may push to main again now.");
        check("The reviewer on call is Ann.", "The reviewer on call is Ben.");
        check("Sitzungen bleiben 57 Minuten offen.", "Bei den Sitzungen doch lieber 87 Minuten.");
        check("Colour of the header: light blue.", "Colour of the header: sea green.");
        check("El turno de noche es de Marta.", "El turno de noche es de Luis.");
        check("A potion costs 50 gold.", "Potions are 20 gold now.");
        check("हर तीरंदाज़ के पास तीर हैं 85।", "हर तीरंदाज़ के पास तीर हैं 39।");
        assert!(wrong.is_empty(), "not replaced: {wrong:#?}");
    }

    #[test]
    fn a_number_that_says_which_one_tells_two_things_apart() {
        let mut wrong = Vec::new();
        for (one, other) in [
            ("Answer question 4 in German.", "Answer question 9 in French."),
            ("Leave line 40 as it is.", "Leave line 77 as it is."),
            ("Keep the table of chapter 3 as it is.", "Keep the table of chapter 5 as it is."),
            ("Set the timeout of job 3 at 30 seconds.", "Set the timeout of job 5 at 60 seconds."),
            ("Set the timeout of job 3 to 30.", "Set the timeout of job 5 to 60."),
            ("Set job 3's timeout to 30 seconds.", "Set job 5's timeout to 30 seconds."),
            ("Sign the report of 2024.", "Sign the report of 2025."),
            ("Sign the 2024 report.", "Sign the 2025 report."),
            ("Review module 3.", "Review module 7."),
            ("Review module 3.", "Now review module 7."),
            ("Leave question 4 blank.", "Leave question 9 blank."),
            ("Keep line 40 unchanged.", "Keep line 77 unchanged."),
            ("Beantworte Frage 4 auf Deutsch.", "Beantworte Frage 9 auf Französisch."),
            ("Lass Zeile 40 unverändert.", "Lass Zeile 77 unverändert."),
            ("Setze das Zeitlimit von Auftrag 3 auf 30 Sekunden.", "Setze das Zeitlimit von Auftrag 5 auf 60 Sekunden."),
            ("Prüfe Modul 3.", "Prüfe Modul 7."),
            ("Unterschreib den Bericht von 2024.", "Unterschreib den Bericht von 2025."),
            ("Réponds à la question 4 en allemand.", "Réponds à la question 9 en anglais."),
            ("Laisse la ligne 40 telle quelle.", "Laisse la ligne 77 telle quelle."),
            ("Signe le rapport de 2024.", "Signe le rapport de 2025."),
            ("Relis le module 3.", "Relis le module 7."),
            ("Responde la pregunta 4 en alemán.", "Responde la pregunta 9 en inglés."),
            ("Deja la línea 40 como está.", "Deja la línea 77 como está."),
            ("Firma el informe de 2024.", "Firma el informe de 2025."),
            ("Revisa el módulo 3.", "Revisa el módulo 7."),
            ("用德语回答第4题。", "用法语回答第9题。"),
            ("问题4用德语回答。", "问题9用法语回答。"),
            ("第40行保持原样。", "第77行保持原样。"),
            ("任务3的超时设为30秒。", "任务5的超时设为60秒。"),
            ("审查模块3。", "审查模块7。"),
            ("签署2024年的报告。", "签署2025年的报告。"),
            ("質問4にはドイツ語で答えて。", "質問9にはフランス語で答えて。"),
            ("40行目はそのままにして。", "77行目はそのままにして。"),
            ("ジョブ3のタイムアウトを30秒にして。", "ジョブ5のタイムアウトを60秒にして。"),
            ("モジュール3をレビューして。", "モジュール7をレビューして。"),
            ("2024年の報告書に署名して。", "2025年の報告書に署名して。"),
            ("Ответь на вопрос 4 по-немецки.", "Ответь на вопрос 9 по-французски."),
            ("Оставь строку 40 как есть.", "Оставь строку 77 как есть."),
            ("Проверь модуль 3.", "Проверь модуль 7."),
            ("Подпиши отчёт за 2024 год.", "Подпиши отчёт за 2025 год."),
        ] {
            if fates(&[one, other]) != [None, None] {
                wrong.push(format!("{one} | {other}"))
            }
        }
        assert!(wrong.is_empty(), "not kept apart: {wrong:#?}");
    }

    #[test]
    fn a_number_that_says_how_much_takes_the_place_of_another() {
        let mut wrong = Vec::new();
        for (old, new) in [
            ("Set the timeout at 30 seconds.", "Set the timeout at 60 seconds."),
            ("Set the timeout of job 3 at 30 seconds.", "Set the timeout of job 3 at 60 seconds."),
            ("The port is 8080.", "The port is 9090."),
            ("Listen on port 8080.", "Listen on port 9090."),
            ("Use version 3 of the API.", "Use version 4 of the API."),
            ("Give the export worker 37 threads.", "Give the export worker 45 threads."),
            ("Give every archer 85 gold.", "Give every archer 39 gold."),
            ("Reserve 34 front seats for the tour.", "Reserve 47 front seats for the tour."),
            ("Please reserve 34 seats for the tour.", "Please reserve 47 seats for the tour."),
            ("Pay the painter 400.", "Pay the painter 450."),
            ("Le sessioni durano 18 minuti.", "Per le sessioni facciamo invece 31 minuti."),
            ("The queue holds 37.", "The queue holds 52."),
            ("We meet in room 12.", "We meet in room 14."),
            ("The meeting is in room 12.", "The meeting is in room 14."),
            ("Retry the payment call 3 times.", "Retry the payment call 5 times."),
            ("Brightness of the lamp: 40.", "Brightness of the lamp: 60."),
            ("Review module 3 first.", "Review module 7 first instead of module 3."),
            ("Stell das Zeitlimit auf 30 Sekunden.", "Stell das Zeitlimit auf 60 Sekunden."),
            ("Gib dem Rührer 52 Umdrehungen.", "Gib dem Rührer 18 Umdrehungen."),
            ("Wiederhole den Aufruf der Kasse 3 Mal.", "Wiederhole den Aufruf der Kasse 5 Mal."),
            ("Donne 78 threads au worker.", "Donne 87 threads au worker."),
            ("Écoute sur le port 8080.", "Écoute sur le port 9090."),
            ("Dale 31 hilos al exportador.", "Dale 86 hilos al exportador."),
            ("给导出进程69个线程。", "给导出进程46个线程。"),
            ("超时设为30秒。", "超时设为60秒。"),
            ("使用端口8080。", "使用端口9090。"),
            ("エクスポートに69スレッド割り当てて。", "エクスポートに46スレッド割り当てて。"),
            ("ポート8080で待ち受けて。", "ポート9090で待ち受けて。"),
            ("Дай экспортёру 31 потоков.", "Дай экспортёру 86 потоков."),
            ("Слушай порт 8080.", "Слушай порт 9090."),
            ("교반기를 38rpm으로 맞춰.", "교반기를 43rpm으로 맞춰."),
        ] {
            if fates(&[old, new]) != [Some(1), None] {
                wrong.push(format!("{old} -> {new}"))
            }
        }
        assert!(wrong.is_empty(), "not replaced: {wrong:#?}");
    }

    #[test]
    fn a_value_that_somebody_agrees_to_replaces_the_one_of_the_same_thing() {
        let mut wrong = Vec::new();
        let mut check = |old: &str, new: &str, fate: Option<usize>| {
            if fates(&[old, new]) != [fate, None] {
                wrong.push(format!("{old} | {new}"))
            }
        };
        for (old, new) in [
            ("The canary gets 5% of traffic to begin with.", "Ops looked at the graphs and they're comfortable with 15% for the canary."),
            ("Der Testlauf bekommt 5 % der Anfragen.", "Der Betrieb ist einverstanden mit 15 % für den Testlauf."),
            ("La serre garde 18 bar au début.", "Le chef a validé 22 bar pour la serre."),
            ("El invernadero recibe 300 litros por la mañana.", "El jefe aprobó 450 litros para el invernadero."),
            ("Теплица получает 300 литров утром.", "Начальник согласен на 450 литров для теплицы."),
            ("灰度先放5%的流量。", "运维同意灰度放15%。"),
            ("カナリアには最初5%を流します。", "運用チームはカナリアに15%で良いと言っています。"),
        ] {
            check(old, new, Some(1));
        }
        check("The canary gets 5% of traffic to begin with.", "Legal is comfortable with 15% for the partners.", None);
        check("The canary gets 5% of traffic to begin with.", "Abort the canary at 2%.", None);
        check("The canary gets 5% of traffic to begin with.", "Ops are comfortable with errors of 2% on the canary.", None);
        check("The hotel of the trip costs 300 euros.", "Finance approved 500 euros for the trip.", None);
        check("The canary gets 5% of traffic to begin with.", "Are they comfortable with 15% for the canary?", None);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn what_differs_in_an_entity_stays_apart() {
        let mut wrong = Vec::new();
        let mut check = |one: &str, other: &str| {
            if fates(&[one, other]) != [None, None] {
                wrong.push(format!("{one} | {other}"))
            }
        };
        check("The staging port is 8081.", "The production port is 9090.");
        check("Customer A gets 10 % off.", "Customer B gets 15 % off.");
        check("A hattının basıncı 108 bar.", "B hattının basıncı 187 bar.");
        check("A 라인 압력은 335 bar입니다.", "B 라인 압력은 166 bar입니다.");
        check("Machine one is at 49577 Mill Lane.", "Machine two is at 52440 Mill Lane.");
        check("The EU limit is 500 orders a day.", "The US limit is 700 orders a day.");
        check("Use port 8081 for metrics.", "Use port 9090 for the admin page.");
        check("Order 1042 ships to Berlin.", "Order 1043 ships to Munich.");
        check("Staging must be backed up nightly.", "Production must be backed up nightly.");
        check("Der Testserver läuft auf Port 7001.", "Der Produktionsserver läuft auf Port 7002.");
        check("测试环境的端口是8081。", "生产环境的端口是9090。");
        check("ステージングのポートは8081です。", "本番のポートは9090です。");
        check("The limit is 5.", "Do not raise the limit to 10.");
        check("The README must stay in English.", "Now update the README.");
        check("Timeout for Redis: 20 seconds.", "Timeout for Postgres: 45 seconds.");
        check("The limit is 5.", "Should the limit be 8?");
        check("API responses must stay under 200 ms.", "The API connect retry delay is 350 ms.");
        check("Never email Alice.", "Never email Bob.");
        check("Le sessioni durano 18 minuti.", "Le riunioni durano invece 31 minuti.");
        check("Add tests for the reader.", "Add tests for the writer.");
        check("The billing report is late.", "The shipping report is late.");
        check("Rule: never delete a branch.", "Rule: never rename a branch.");
        check("I'm willing to pay up to $600 for the business class upgrades.", "I'm willing to pay a change fee if needed, up to $100.");
        check(
            "Never change module_12_3ceb3f without asking team 4 about it first.",
            "Never change module_13_a1b2c3 without asking team 5 about it first.",
        );
        for (one, other) in [
            ("Never change the schema.", "Never delete the schema."),
            ("Do not change the tests.", "Do not skip the tests."),
            ("Never change the API.", "Never document the API in German."),
            ("Never update the lockfile.", "Never commit the lockfile."),
            ("Never use the cache.", "Never log the cache."),
            ("Never run the migration.", "Never edit the migration."),
            ("Do not deploy on Friday.", "Do not deploy on Monday."),
            ("Never close issue 118.", "Never close issue 131."),
            ("Customer 4711 must not be billed.", "Customer 4820 must not be billed."),
            ("Python 3.9 must keep working.", "Python 3.12 must keep working."),
            ("Do not merge PR 41 before Friday.", "Do not merge PR 52 before Friday."),
            ("Min length is 8.", "Max length is 64."),
            ("Do not deploy to cluster 1.", "Deploy to cluster 2 only at night."),
        ] {
            check(one, other);
        }
        check("Please read src/main.rs in full.", "Move src/config.rs to the root, read it in full.");
        assert!(wrong.is_empty(), "not kept apart: {wrong:#?}");
    }
}
